"""What is known of scripts and languages: where words begin and end, which letters and spellings mean the same,
irregular forms, and common words. The tokeniser applies it.

Texts and queries are changed in the same way, so it does not matter which spelling is the "right" one, nor that a rule
also changes words that have only one spelling."""

# ruff: noqa: RUF001 (letters and punctuation of other scripts are meant)
from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache

# where words begin and end

# Written without spaces, or (Hangul) with endings attached to the word: Han, kana, bopomofo, Hangul; Thai, Lao,
# Burmese, Khmer.
_SPACELESS = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3041-\u309f\u30a1-\u30fa\u30fc-\u312f\u3131-\u318e"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f"
    "\uffa0-\uffdc\u1100-\u11ff\U00020000-\U0003fffd"
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e50-\u0e59\u0e80-\u0eff\u1000-\u1049\u1050-\u109f\u1780-\u17d3\u17d7\u17dc-\u17e9"
)
# Marks that belong to the letter before them, but do not match `\w`: accents, vowel signs, joiners, soft hyphens and
# other signs without a width.
_MARKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0711\u0730-\u074a\u07a6-\u07b0\u0900-\u0903\u093a-\u094f"
    "\u0951-\u0957\u0962\u0963\u0981-\u0983\u09bc-\u09cd\u09d7\u09e2\u09e3\u0a01-\u0a03\u0a3c-\u0a51\u0a70\u0a71\u0a75"
    "\u0a81-\u0a83\u0abc-\u0acd\u0ae2\u0ae3\u0b01-\u0b03\u0b3c-\u0b57\u0b62\u0b63\u0b82\u0bbe-\u0bcd\u0bd7\u0c00-\u0c04"
    "\u0c3e-\u0c56\u0c62\u0c63\u0c81-\u0c83\u0cbc-\u0cd6\u0ce2\u0ce3\u0d00-\u0d03\u0d3b-\u0d4d\u0d57\u0d62\u0d63"
    "\u0d82\u0d83\u0dca-\u0ddf\u0df2\u0df3\u0f18\u0f19\u0f35\u0f37\u0f39\u0f71-\u0f84\u0f8d-\u0fbc"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u00ad\u200b-\u200d\u2060\ufe20-\ufe2f\ufeff"
)
_EMOJI = (
    "\u203c\u2049\u231a-\u23ff\u2600-\u27bf\u2b05-\u2b55\U0001f000-\U0001f1e5\U0001f200-\U0001f3fa\U0001f400-\U0001faff"
)
_FLAG = "[\U0001f1e6-\U0001f1ff]{2}"
# One of these inside a word makes it an identifier: a path, a version, an address, a name with hyphens.
_JOINT = r"[./\\:@\u2010\u2011-]"

_LETTERS = rf"[^\W{_SPACELESS}]+(?:[{_MARKS}]+[^\W{_SPACELESS}]*)*"
# Most words in most texts are plain ASCII, for which this pattern is four times as fast.
_PLAIN = rf"(?>[0-9A-Za-z_]+(?:{_JOINT}[0-9A-Za-z_]+)*(?:\+\+|#)?)"
# A number with thousands separators, which are no part of the term.
_THOUSANDS = r"(?<![\w.,-])[0-9]{1,3}(?:,[0-9]{3})+(?!\w|,[0-9])"
_RUN = (
    rf"{_THOUSANDS}|{_PLAIN}(?![^\x00-\x7f])|{_LETTERS}(?:{_JOINT}{_LETTERS})*(?:\+\+|#)?"
    rf"|[{_SPACELESS}]+|{_FLAG}|[{_EMOJI}]"
)
ASCII_RUN = re.compile(f"{_THOUSANDS}|{_PLAIN}")

# The words and numbers of an identifier. A simple word has one, itself.
PARTS = re.compile(rf"\d+|(?:[^\W\d_]|[{_MARKS}])+")
# The words of a name in mixed case, such as parseHTMLFile.
CAMEL_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
SEPARATORS = re.compile(r"[./\\:@_-]+")
PATH_SEPARATORS = re.compile(r"[/\\:@]+")
VERSION_SEPARATORS = re.compile(r"[/\\:@_-]+")
VERSION_NUMBER = re.compile(r"\d+(?:\.\d+)+")
GROUPED_DIGITS = re.compile(r"\d{1,3}(?:\.\d{3})+$")
HYPHENATED = re.compile(r"[^\W\d_]+(?:[-.][^\W\d_]+){1,2}$")
HEXADECIMAL = re.compile(r"[0-9a-f]{12,}$")
IS_HEBREW = re.compile("[\u05d0-\u05ea]").match

# Compiling the two patterns with the ranges of many scripts takes a twentieth of the time of importing Frontdesk. So
# they are compiled when they are first needed.


@cache
def run_pattern() -> re.Pattern[str]:
    """Matches a run: a word, an identifier, a piece without spaces, or an emoji."""
    return re.compile(_RUN)


@cache
def _spaceless_pattern() -> re.Pattern[str]:
    return re.compile(rf"[{_SPACELESS}]")


def is_spaceless(text: str) -> bool:
    """Whether a text begins in a script without spaces."""
    return not text.isascii() and _spaceless_pattern().match(text) is not None


# letters that mean the same

# Accents and vowel points are dropped. Signs that make another letter (Indic, kana) are not, except for the dot below
# in Devanagari, since loan words are written with and without it.
DROPPED_MARKS = re.compile(
    "[\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed\u093c"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u00ad\u200b-\u200d\u2060\ufe20-\ufe2f\ufeff]"
)

# Pairs of a traditional Chinese character and its simplified form, for the characters that are common in both.
_PAIRS = """
    萬万 與与 專专 業业 東东 絲丝 丟丢 兩两 嚴严 個个 豐丰 臨临 為为 爲为 麗丽 舉举 麼么 義义 烏乌 樂乐 喬乔 習习
    鄉乡 書书 買买 亂乱 爭争 虧亏 雲云 亞亚 產产 畝亩 親亲 億亿 僅仅 從从 倉仓 儀仪 們们 價价 眾众 優优 會会 傘伞
    偉伟 傳传 傷伤 倫伦 偽伪 體体 餘余 傭佣 側侧 債债 傾倾 償偿 兒儿 黨党 蘭兰 關关 興兴 養养 獸兽 內内 岡冈 冊册
    寫写 軍军 農农 馮冯 衝冲 決决 況况 凍冻 淨净 準准 涼凉 減减 湊凑 幾几 鳳凤 憑凭 凱凯 擊击 鑿凿 劃划 劉刘 則则
    剛刚 創创 刪删 別别 劇剧 劑剂 勸劝 辦办 務务 動动 勵励 勁劲 勞劳 勢势 勝胜 區区 醫医 華华 協协 單单 賣卖 盧卢
    衛卫 卻却 廠厂 廳厅 歷历 曆历 厲厉 壓压 厭厌 廁厕 縣县 參参 雙双 發发 髮发 變变 敘叙 葉叶 號号 嘆叹 嚇吓 嗎吗
    啟启 吳吴 聽听 員员 嗆呛 詠咏 響响 啞哑 喚唤 嘩哗 噴喷 囑嘱 團团 園园 圍围 國国 圖图 圓圆 聖圣 場场 壞坏 塊块
    堅坚 壇坛 壩坝 墳坟 墜坠 壟垄 墊垫 塵尘 牆墙 壯壮 聲声 殼壳 壺壶 處处 備备 夠够 頭头 誇夸 夾夹 奪夺 奮奋 獎奖
    奧奥 婦妇 媽妈 嬌娇 娛娱 嬰婴 孫孙 學学 寧宁 寶宝 實实 寵宠 審审 憲宪 宮宫 寬宽 賓宾 寢寝 對对 尋寻 導导 將将
    爾尔 嘗尝 堯尧 盡尽 層层 屆届 屬属 歲岁 島岛 嶺岭 崗岗 峽峡 幣币 帥帅 師师 帳帐 簾帘 幫帮 帶带 幹干 並并 廣广
    莊庄 慶庆 廬庐 庫库 應应 廟庙 廢废 開开 異异 棄弃 張张 彌弥 彎弯 彈弹 強强 歸归 當当 錄录 徹彻 徑径 憶忆 憂忧
    懷怀 態态 慫怂 憐怜 總总 戀恋 懇恳 惡恶 惱恼 悅悦 懸悬 驚惊 懼惧 慘惨 慚惭 慣惯 憤愤 願愿 懶懒 戲戏 戰战 戶户
    紮扎 撲扑 執执 擴扩 掃扫 揚扬 擾扰 撫抚 拋抛 搶抢 護护 報报 擔担 擬拟 攏拢 揀拣 擁拥 攔拦 擰拧 撥拨 擇择 掛挂
    擋挡 掙挣 擠挤 揮挥 撈捞 損损 撿捡 換换 據据 擲掷 摻掺 攬揽 攙搀 擱搁 攝摄 擺摆 搖摇 攤摊 撐撑 敵敌 數数 齋斋
    鬥斗 斬斩 斷断 無无 舊旧 時时 曠旷 晝昼 顯显 晉晋 曬晒 曉晓 暈晕 暫暂 術术 機机 殺杀 雜杂 權权 條条 來来 楊杨
    極极 構构 櫃柜 檸柠 標标 棧栈 欄栏 樹树 樣样 橋桥 檔档 夢梦 檢检 樓楼 橫横 檯台 臺台 颱台 歡欢 歐欧 殘残 毀毁
    畢毕 斃毙 氣气 漢汉 湯汤 溝沟 沒没 滄沧 滬沪 淚泪 潑泼 澤泽 潔洁 灑洒 窪洼 濁浊 測测 濟济 渾浑 濃浓 塗涂 濤涛
    渦涡 潤润 漲涨 淵渊 漁渔 滲渗 溫温 灣湾 濕湿 滾滚 滿满 濾滤 濫滥 灘滩 滅灭 燈灯 靈灵 災灾 燦灿 爐炉 點点 煉炼
    爛烂 燭烛 煙烟 煩烦 燒烧 燙烫 熱热 愛爱 爺爷 牽牵 犧牺 狀状 猶犹 獨独 獄狱 獅狮 獵猎 豬猪 貓猫 獻献 瑪玛 環环
    現现 瓊琼 電电 畫画 暢畅 療疗 瘋疯 癢痒 癮瘾 皺皱 盞盏 鹽盐 監监 蓋盖 盜盗 盤盘 著着 矚瞩 礦矿 碼码 磚砖 礎础
    碩硕 確确 禮礼 禍祸 離离 禿秃 種种 積积 稱称 穩稳 窮穷 竊窃 窩窝 競竞 筆笔 箋笺 築筑 篩筛 籌筹 簽签 簡简 籃篮
    類类 糧粮 緊紧 糾纠 紅红 約约 級级 紀纪 純纯 綱纲 納纳 縱纵 紛纷 紙纸 紋纹 紡纺 線线 練练 組组 細细 織织 終终
    紹绍 經经 綁绑 絨绒 結结 繞绕 繪绘 給给 絡络 絕绝 統统 絹绢 繼继 績绩 緒绪 續续 繩绳 維维 綿绵 綜综 綠绿 緩缓
    編编 緣缘 縫缝 縮缩 繳缴 網网 羅罗 罰罚 罷罢 聯联 聰聪 肅肃 腸肠 膚肤 腫肿 脹胀 脅胁 膽胆 腦脑 腳脚 脫脱 臉脸
    臘腊 艦舰 艙舱 艱艰 藝艺 節节 蕪芜 蘆芦 蘇苏 蘋苹 範范 莖茎 薦荐 蕩荡 榮荣 葷荤 藥药 蓮莲 獲获 穫获 瑩莹 營营
    蕭萧 蔥葱 藍蓝 蔣蒋 虜虏 慮虑 蟲虫 雖虽 蝦虾 蝕蚀 蟻蚁 蠟蜡 蠅蝇 補补 襯衬 裝装 襪袜 褲裤 見见 觀观 規规 視视
    覽览 覺觉 觸触 譽誉 計计 訂订 認认 譏讥 討讨 讓让 訓训 議议 訊讯 記记 講讲 許许 論论 訟讼 設设 訪访 證证 評评
    識识 詐诈 訴诉 診诊 詞词 譯译 試试 詩诗 誠诚 話话 誕诞 詢询 該该 詳详 語语 誤误 說说 誦诵 請请 諸诸 諾诺 讀读
    課课 誰谁 調调 諒谅 談谈 謊谎 謀谋 謎谜 謝谢 謠谣 謹谨 譜谱 貝贝 負负 財财 責责 賢贤 敗败 帳账 貨货 質质 販贩
    貪贪 貧贫 購购 貫贯 賤贱 貼贴 貴贵 貸贷 貿贸 費费 賀贺 賊贼 賄贿 資资 賭赌 賞赏 賜赐 賠赔 賴赖 賺赚 賽赛 贈赠
    贏赢 趙赵 趕赶 躍跃 踐践 軀躯 車车 軌轨 轉转 輪轮 軟软 輕轻 載载 較较 輔辅 輛辆 輩辈 輝辉 輸输 轄辖 辭辞 辯辩
    邊边 遼辽 達达 遷迁 過过 邁迈 運运 還还 這这 進进 遠远 違违 連连 遲迟 適适 選选 遺遗 郵邮 鄰邻 鄭郑 釋释 裡里
    裏里 鑒鉴 鑑鉴 針针 釘钉 釣钓 鈣钙 鋼钢 鑰钥 鈔钞 鐘钟 鍾钟 鈉钠 鈕钮 錢钱 鉗钳 鑽钻 鐵铁 鈴铃 鉛铅 銅铜 鋁铝
    銀银 鋪铺 鏈链 銷销 鎖锁 鋒锋 錯错 錦锦 鍵键 鋸锯 鍋锅 鍛锻 鏡镜 長长 門门 閃闪 閉闭 問问 闖闯 閒闲 間间 悶闷
    鬧闹 聞闻 閣阁 閱阅 闊阔 隊队 陽阳 陰阴 陣阵 階阶 際际 陸陆 陳陈 險险 隨随 隱隐 難难 雞鸡 霧雾 靜静 韓韩 頁页
    頂顶 項项 順顺 須须 顧顾 頓顿 預预 領领 頗颇 頸颈 頻频 題题 顏颜 額额 顛颠 風风 飄飘 飛飞 飢饥 飯饭 飲饮 飾饰
    飽饱 餅饼 餃饺 館馆 饋馈 饅馒 馬马 馳驰 駕驾 駛驶 駐驻 驗验 騎骑 騙骗 騷骚 驟骤 魚鱼 鮮鲜 鯉鲤 鯨鲸 鳥鸟 鳴鸣
    鴨鸭 鵝鹅 鷹鹰 麥麦 黃黄 齊齐 齒齿 齡龄 龍龙 龜龟 慾欲 衹只 隻只 製制 複复 復复 鬆松 徵征 後后 麵面 週周 穀谷
    註注 佈布 採采 係系 繫系 捨舍 榦干 乾干 嚮向 禦御 鬱郁 籲吁 誌志 佔占 墻墙 綫线 啓启
    誼谊 諧谐 謙谦 謂谓 諷讽 謬谬 譴谴 讚赞 贊赞 讒谗 訝讶 訛讹 訣诀 詛诅 詣诣 詭诡 詮诠 詫诧 誅诛 誘诱 誹诽 諂谄 諄谆
    諜谍 諺谚 謄誊 謗谤 謚谥 謳讴 譁哗 譚谭 讖谶 豎竖 豔艳 貞贞 貢贡 貯贮 貶贬 賁贲 賂赂 賃赁 賈贾 賑赈 賒赊 賦赋 賬账
    贅赘 贍赡 贓赃 贖赎 趨趋 跡迹 踴踊 蹤踪 躊踌 軋轧 軒轩 軸轴 軾轼 輒辄 輥辊 輯辑 輻辐 輾辗 轆辘 轍辙 轎轿 轟轰 轡辔
    迴回 逕径 遊游 遙遥 遞递 邐逦 郟郏 鄒邹 鄧邓 鄲郸 醖酝 醜丑 醬酱 釀酿 釁衅 釐厘 鈍钝 鈦钛 鉀钾 鉤钩 鉻铬 銘铭 銬铐
    銳锐 鋅锌 鋤锄 鋰锂 錘锤 錠锭 錳锰 錶表 鍍镀 鍊链 鍥锲 鎂镁 鎊镑 鎮镇 鎳镍 鏟铲 鏽锈 鐮镰 鐲镯 鑄铸 閂闩 閏闰 閘闸
    閡阂 閥阀 閨闺 閩闽 閹阉 閻阎 闆板 闈闱 闌阑 闔阖 闡阐 闢辟 陝陕 陘陉 隕陨 隴陇 隸隶 雋隽 雛雏 靄霭 靂雳 靦腼 鞏巩
    韁缰 韋韦 韌韧 韻韵 頃顷 頌颂 頑顽 頒颁 頹颓 顆颗 顎颚 顫颤 顱颅 颯飒 颶飓 餌饵 餓饿 餵喂 餾馏 饑饥 饒饶 饞馋 馭驭
    馴驯 駁驳 駝驼 駭骇 駱骆 騁骋 騰腾 驅驱 驕骄 驢驴 骯肮 髒脏 鬍胡 鬚须 魯鲁 鯊鲨 鰭鳍 鱷鳄 鴉鸦 鴿鸽 鵬鹏 鶴鹤 鷗鸥
    鸚鹦 麩麸 黴霉 齣出 齲龋 龐庞 墮堕 壘垒 壽寿 夥伙 奩奁 妝妆 姍姗 嫵妩 嬸婶 屜屉 嶄崭 嶇岖 崢峥 巒峦 巔巅 幟帜 幀帧
    廂厢 廈厦 廚厨 廝厮 彆别 徬彷 憊惫 憫悯 憚惮 懲惩 懨恹 戔戋 戧戗 拚拼 挾挟 捲卷 掄抡 揹背 搗捣 摟搂 摯挚 撓挠 撣掸
    擄掳 擯摈 攆撵 攪搅 斂敛 斕斓 曄晔 曇昙 桿杆 棗枣 棟栋 棲栖 楓枫 樁桩 槍枪 樞枢 樸朴 橢椭 檳槟 櫥橱 櫻樱 欖榄 欽钦
    歎叹 殤殇 殯殡 毆殴 氈毡 汙污 洩泄 涇泾 渙涣 湧涌 滌涤 滯滞 滷卤 漸渐 漿浆 潰溃 澀涩 澆浇 澗涧 濘泞 濺溅 瀉泻 瀋沈
    瀏浏 瀕濒 瀘泸 瀝沥 瀟潇 灄滠 煬炀 熒荧 燉炖 燴烩 爍烁 牘牍 犢犊 狹狭 獷犷 獺獭 璽玺 甌瓯 痙痉 瘡疮 瘧疟 癟瘪 癥症
    癬癣 癱瘫 皚皑 瞞瞒 瞭了 矯矫 硃朱 硯砚 磯矶 礙碍 礫砾 祿禄 禪禅 稅税 稟禀 穎颖 穢秽 窺窥 竄窜 竅窍 竪竖 筍笋 箏筝
    篋箧 簍篓 簫箫 籟籁 籠笼 籤签 籬篱 粵粤 糞粪 糰团 紂纣 紈纨 紐纽 紓纾 紗纱 紳绅 紺绀 絃弦 絞绞 綏绥 綢绸 綴缀 緋绯
    緞缎 緯纬 縛缚 縷缕 繃绷 繡绣 繭茧 繽缤 纏缠 纔才 纖纤 纜缆 罈坛 羈羁 羨羡 翹翘 耬耧 聳耸 聶聂 職职 聾聋 脈脉 腎肾
    腡脶 膠胶 膩腻 臍脐 臟脏 臠脔 艷艳 芻刍 荊荆 莢荚 萊莱 葦苇 蒼苍 蓀荪 蓽荜 蔔卜 蔭荫 薔蔷 薩萨 薑姜 藉借 蘊蕴 蘿萝
    蛻蜕 蝸蜗 螢萤 螞蚂 螻蝼 蟬蝉 蠍蝎 蠱蛊 蠶蚕 蠻蛮 衊蔑 袞衮 褸褛 襖袄 襤褴 覓觅 覦觎 觴觞 佇伫 俠侠 倀伥 倆俩 倖幸
    傑杰 傯偬 僑侨 僕仆 僥侥 僱雇 儉俭 儐傧 儘尽 儲储 儷俪 兇凶 兌兑 凜凛 剎刹 剝剥 劊刽 劍剑 勛勋 勳勋 匯汇 匱匮 卹恤
    厙厍 吶呐 呂吕 咼呙 唄呗 啣衔 喪丧 喫吃 嗇啬 嗚呜 嘔呕 嘖啧 嘮唠 嘯啸 噁恶 噓嘘 噹当 嚀咛 嚐尝 嚕噜 嚥咽 囂嚣 囪囱
    垵埯 塢坞 塤埙 墾垦 牀床 疊叠 盃杯 眥眦 睏困 砲炮 碁棋 祕秘 羣群 鉅巨 鉢钵 麪面 鼕冬 傢家 剋克 勻匀 廕荫 徧遍 恆恒
    悽凄 慼戚 慄栗 慍愠 擡抬 攷考 昇升 曏向 朧胧
"""
TO_SIMPLIFIED = {ord(pair[0]): pair[1] for pair in _PAIRS.split()}

_COMMON = 0xFFFF
"""the last character of the basic plane"""


class _Folding(dict[int, str]):
    """For `str.translate`. Characters that are not listed are looked up when they are met, and the common ones are
    kept: finding the digits among all of Unicode would take a tenth of the time of importing Frontdesk."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        digit = unicodedata.decimal(letter, None)
        folded = letter if digit is None else str(digit)
        if code <= _COMMON:
            self[code] = folded
        return folded


# Letters that differ from a plain one by a stroke or the like, which Unicode does not treat as a mark; hyphens that say
# where a line may end as plain ones; hiragana as katakana; traditional Chinese characters as simplified ones; digits of
# all scripts as those of ASCII.
FOLDED_LETTERS: dict[int, str] = _Folding(
    {
        **{
            ord(letter): plain
            for letter, plain in zip("øłđħ\u0131æœیک", ("o", "l", "d", "h", "i", "ae", "oe", "ي", "ك"), strict=True)
        },
        **dict.fromkeys((0x2010, 0x2011), "-"),
        **{kana: chr(kana + 0x60) for kana in range(0x3041, 0x3097)},
        **TO_SIMPLIFIED,
    }
)

# stemmers

_STEMMERS = (
    ("\u0370", "\u03ff", "greek"),
    ("\u0400", "\u052f", "russian"),
    ("\u0530", "\u058f", "armenian"),
    ("\u0600", "\u06ff", "arabic"),
    ("\u0900", "\u097f", "hindi"),
    ("\u0b80", "\u0bff", "tamil"),
)


def stemmer_for_script(word: str) -> str | None:
    """The Snowball language for the script of a word; None for Latin, and for scripts without a stemmer."""
    first = word[0]
    if first < "\u0370":
        return None
    return next((language for low, high, language in _STEMMERS if low <= first <= high), None)


# irregular forms, which no stemmer recognises: "go" finds "went", "child" finds "children"

_FORMS = """
    arise arose arisen; awake awoke awoken; bear bore borne; beat beaten; become became; begin began begun; bend bent;
    bind bound; bite bit bitten; bleed bled; blow blew blown; break broke broken; breed bred; bring brought;
    build built; burn burnt; buy bought; catch caught; choose chose chosen; cling clung; come came; creep crept;
    deal dealt; dig dug; draw drew drawn; dream dreamt; drink drank drunk; drive drove driven; eat ate eaten;
    fall fell fallen; feed fed; feel felt; fight fought; flee fled; fly flew flown flies; forbid forbade forbidden;
    forget forgot forgotten; forgive forgave forgiven; freeze froze frozen; get got gotten; give gave given;
    go went gone goes; grow grew grown; hang hung; hear heard; hide hid hidden; hold held; keep kept; kneel knelt;
    know knew known; lay laid; lead led; lean leant; leap leapt; learn learnt; lend lent; lose lost; make made;
    mean meant; meet met; pay paid; ride rode ridden; ring rang rung; rise rose risen; run ran; say said; see saw seen;
    seek sought; sell sold; send sent; shake shook shaken; shine shone; shoot shot; shrink shrank shrunk;
    sing sang sung; sink sank sunk; sit sat; sleep slept; slide slid; speak spoke spoken; speed sped; spell spelt;
    spend spent; spin spun; spring sprang sprung; stand stood; steal stole stolen; stick stuck; sting stung;
    strike struck; swear swore sworn; sweep swept; swim swam swum; swing swung; take took taken; teach taught;
    tear tore torn; tell told; think thought; throw threw thrown; understand understood; wake woke woken;
    wear wore worn; weave wove woven; weep wept; win won; wind wound; write wrote written; overcome overcame;
    child children; man men; woman women; person people; foot feet; tooth teeth; goose geese; mouse mice; life lives;
    wife wives; knife knives; leaf leaves; half halves; shelf shelves; wolf wolves; thief thieves; loaf loaves;
    good better best; bad worse worst; analysis analyses; crisis crises; thesis theses; index indices; matrix matrices;
    criterion criteria; phenomenon phenomena; datum data; medium media; die dying; lie lying; tie tying
"""

IRREGULAR = {form: base for base, *forms in map(str.split, _FORMS.split(";")) for form in forms}

# spellings

_RULES = (
    (re.compile(r"(\w{3,})our(s|ed|ing|ful|fully|less|able|ably|ite|ites|hood|al|ally|er|ers)?$"), r"\1or\2"),
    (re.compile(r"(\w{2,}[iy])s(e|es|ed|er|ers|ing|ation|ations|ational)$"), r"\1z\2"),
    (re.compile(r"(\w+[tb])re(s|d)?$"), r"\1er\2"),
    (re.compile(r"(\w{3,}og)ue(s|d)?$"), r"\1\2"),
    (re.compile(r"(def|off|pret|lic)ence(s|d)?$"), r"\1ense\2"),
)
_ENDINGS = re.compile(r".*(?:our|[iy]s|[tb]re|ogue|ence)")
_WORD_PAIRS = """
    grey:gray greys:grays programme:program programmes:programs cheque:check cheques:checks tyre:tire tyres:tires
    aluminium:aluminum jewellery:jewelry mould:mold moulds:molds plough:plow sceptic:skeptic sceptical:skeptical
    moustache:mustache pyjamas:pajamas cosy:cozy fulfil:fulfill enrol:enroll enrolment:enrollment skilful:skillful
    ageing:aging judgement:judgment aeroplane:airplane manoeuvre:maneuver anaesthetic:anesthetic paediatric:pediatric
    encyclopaedia:encyclopedia diarrhoea:diarrhea doughnut:donut doughnuts:donuts okay:ok
"""
_WORDS = dict(pair.split(":") for pair in _WORD_PAIRS.split())
_CONTRACTED = """
    don't can't won't isn't aren't wasn't weren't doesn't didn't haven't hasn't hadn't couldn't shouldn't wouldn't
    mustn't needn't ain't i've you've we've they've you're they're that's what's there's here's let's who's
"""
_CONTRACTIONS = {word.replace("'", ""): tuple(word.split("'")) for word in _CONTRACTED.split()}
_HEBREW_PREFIXES = "הובכלמש"
_UMLAUTS: dict[int, str] = {ord("ä"): "a", ord("ö"): "o", ord("ü"): "u", ord("ß"): "ss"}
# The last words of many German compounds: "Hafenrestaurant" is found by "Restaurant" and by "Hafen".
_GERMAN_HEADS = tuple(
    sorted(
        """
        abteilung adresse amt anbieter angebot anlage antrag arbeit arzt aufgabe ausgabe auto bahn bahnhof bank batterie
        baum beitrag bericht beruf bild buch büro datei daten dienst diagnose drucker eingang einstellung fabrik fahrer
        fahrt farbe fehler feier fenster feld fest film firma flasche fleisch flug fluss form frage frau freund garten
        gebiet gebühr gebäude geld gerät geschäft geschichte geschenk gesellschaft gesetz gespräch gewicht glas grenze
        gruppe größe hafen halle haus heft heim heizung hilfe hof hose hund hütte insel jacke jahr kabel karte kasse
        katze keller kennwort kette kind kirche klasse kleid klinik kosten kraft krankheit kuchen kunde kurs küche lager
        lampe land lehrer leistung leiter leitung licht liste löffel maschine mann markt meister menge messer minute
        mittel monat motor museum mutter nacht name netz nummer ordnung papier park pflicht plan platte platz politik
        post preis programm prozess prüfung punkt quelle rad rat raum rechnung recht regel regal reise restaurant rohr
        saal sache saft salat satz schaden schein schicht schiff schlüssel schrank schule schutz schwester seite sitz
        sohn spiel sprache stadt stall station steuer stein stelle stoff straße stuhl stunde suche suppe system tag
        tasche tasse teil telefon termin test text tier tisch tochter topf tür uhr unfall unterricht urlaub vater
        verkehr verein versicherung vertrag verwaltung wagen wald wand wasser weg welt werk werkzeug wert wetter woche
        wohnung wort wunsch zahl zeichen zeit zeitung zentrum zettel zeugnis ziel zimmer zug zustand
        """.translate(_UMLAUTS).split(),
        key=len,
        reverse=True,
    )
)
_GERMAN_PLURALS = ("", "e", "en", "er", "es", "s", "n")
_SHORTEST_COMPOUND = 8
_SHORTEST_FRONT = 3


def american(word: str) -> str:
    """An English word, folded, in American spelling."""
    if word in _WORDS:
        return _WORDS[word]
    if _ENDINGS.match(word):
        for rule, replacement in _RULES:
            changed, count = rule.subn(replacement, word)
            if count:
                return changed
    return word


def split_contraction(word: str) -> tuple[str, ...]:
    """The words of an English contraction that is written without its apostrophe: "dont" as "don't". Otherwise the word
    itself."""
    return _CONTRACTIONS.get(word, (word,))


def without_prefix(word: str) -> Iterator[str]:
    """A Hebrew word without the particles that are written together with it: "the house" becomes "house"."""
    for _ in range(2):
        if len(word) < 4 or word[0] not in _HEBREW_PREFIXES:
            return
        word = word[1:]
        yield word


def parts_of_compound(word: str) -> tuple[str, ...]:
    """The first and the last part of a German compound, folded; empty if it is none, or unknown."""
    if len(word) < _SHORTEST_COMPOUND:
        return ()
    for ending in _GERMAN_PLURALS:
        base = word[: len(word) - len(ending)] if word.endswith(ending) else ""
        for head in _GERMAN_HEADS:
            front = base.removesuffix(head)
            if len(front) >= _SHORTEST_FRONT and front != base:
                return front.removesuffix("s") if len(front) > _SHORTEST_FRONT else front, head
    return ()


# common words, which are ignored in a query that has other words

_ENGLISH = """
    a about above after again against all also am an and any are as at be because been before being between both but by
    can could did do does doing don down during each either else ever few for from further had has have having he her
    here hers herself him himself his how i if in into is it its itself just let ll me might more most much must my
    myself no nor not of off on once only or other our ours out over own please re s same shall she should so some such
    t than that the their theirs them themselves then there these they this those through to too under until up us ve
    very was we were what when where whether which while who whom whose why will with would you your yours yourself d m
    tell show find anything something anyone someone
"""
_GERMAN = """
    aber alle als also am an auch auf aus bei beim bin bis bist da damit dann das dass dein deine dem den denn der des
    dich die dies diese dieser dieses dir doch du durch ein eine einem einen einer eines er es etwas euch euer für gab
    gegen gibt habe haben hat hatte hatten hier ich ihm ihn ihnen ihr ihre im in ins ist ja jede jeder jedes kann kein
    keine können man mein meine mich mir mit nach nicht noch nun nur ob oder ohne sehr sein seine sich sie sind so soll
    über um und uns unser unter vom von vor wann war waren warum was weil welche welchem welchen welcher welches wenn
    wer werden wie wieder wir wird wo wohin wurde wurden zu zum zur
"""
_FRENCH = """
    à ai ainsi alors après as au aussi aux avait avant avec avez avons c ça car ce cela ces cet cette chez ci comme d
    dans de des donc dont du elle elles en es est et étaient était été être eu eux fait fut il ils j je l la le les leur
    leurs lui m ma mais me mes moi mon n ne ni nos notre nous on ont ou où par pas pendant peut plus pour pourquoi qu
    quand que quel quelle quelles quels qui quoi s sa sans se sera ses si son sont sous sur t ta te tes toi ton tu un
    une vos votre vous y
"""
_SPANISH = """
    a al algo ante antes aquel aquella así aún aunque cada como cómo con contra cual cuál cuáles cuando cuándo de del
    desde donde dónde e el él ella ellas ellos en entre era eran es esa ese eso esta está están este esto estos fue
    fueron ha había han hasta hay he la las le les lo los más me mi mis mucho muy ni no nos nosotros nuestra nuestro o
    para pero por porque qué que quién quien se sea ser si sí sin sobre son su sus también te tiene tu tus un una uno
    unos y ya yo
"""
_RUSSIAN = """
    а без более бы был была были было быть в вам вас ведь во вот все всего всех вы где да для до его ее если есть еще
    же за здесь и из или им их к как какая какие какой когда кто ли мне мы на над нас не него нее нет ни них но ну о об
    он она они оно от по под при про с сам свой себя со так такой там то тогда того тоже той только том ты у уже чего
    чем что чтобы эта эти это этого этой этом этот я
"""
_ARABIC = (
    "في من على عن إلى الى ما ماذا متى أين كيف هل لماذا هو هي هذا هذه ذلك تلك التي الذي أن إن كان كانت مع أو ثم لم لا قد"
)
_HINDI = """
    का की के को में से पर है हैं था थी थे और या यह वह ये वे क्या कब
    कहाँ कैसे क्यों कौन ने हो भी तो ही कि जो इस उस एक नहीं
"""

STOP_WORDS_BY_SCRIPT = f"{_RUSSIAN} {_ARABIC} {_HINDI}"
"""of scripts that no other language option speaks for"""
STOP_WORDS = {"english": _ENGLISH, "german": _GERMAN, "french": _FRENCH, "spanish": _SPANISH}
