"""Common words such as "what" and "about", which are ignored in a query that has other words."""

# ruff: noqa: RUF001 (Cyrillic letters are meant)
from __future__ import annotations

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

BY_SCRIPT = f"{_RUSSIAN} {_ARABIC} {_HINDI}"
"""of scripts that no other language option speaks for"""
BY_LANGUAGE = {"english": _ENGLISH, "german": _GERMAN, "french": _FRENCH, "spanish": _SPANISH}
